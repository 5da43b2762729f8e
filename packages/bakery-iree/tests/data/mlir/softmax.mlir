module @softmax {
  func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %max = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %wide = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
    %less = stablehlo.subtract %x, %wide : tensor<8x16xf32>
    %exp = stablehlo.exponential %less : tensor<8x16xf32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %all = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
    %out = stablehlo.divide %exp, %all : tensor<8x16xf32>
    return %out : tensor<8x16xf32>
  }
}
