bakery build --matrix-versions only
for cell in cp311-cu12_9 cp313-cu12_9 cp311-cu13_0 cp313-cu13_0; do
    container=$(docker create registry.example/my-kernels/wheels:$cell /)
    docker cp $container:/wheels/. dist/${cell#*-}
    docker rm $container
done
