bakery build --matrix-versions only
for python in cp311 cp313 cp314t; do
    container=$(docker create registry.example/my-kernels/wheels:$python /)
    docker cp $container:/wheels/. dist
    docker rm $container
done
