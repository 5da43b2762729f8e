BUILDX_EXPERIMENTAL=1 docker buildx debug --on=error --invoke=/bin/bash build --target build --build-arg PYTHON=cp311 .
