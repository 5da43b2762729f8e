"""Recipe to plan: layered values with their origins, the matrix, the lowering to targets and stages."""
