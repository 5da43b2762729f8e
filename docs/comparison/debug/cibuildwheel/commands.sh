CIBW_DEBUG_KEEP_CONTAINER=1 cibuildwheel --only cp311-manylinux_x86_64
docker start --attach --interactive "$(docker ps --all --latest --quiet)"
