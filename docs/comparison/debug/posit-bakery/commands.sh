bakery build --plan --matrix-versions only
BUILDX_EXPERIMENTAL=1 docker buildx debug --on=error --invoke=/bin/bash build -f wheels/matrix/Containerfile --target build --build-arg PYTHON=cp311 .
