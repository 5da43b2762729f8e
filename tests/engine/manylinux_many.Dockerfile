# An image in manylinux layout with several Pythons: those of pyenv on the machine that makes it, in folder python/.
FROM debian:bookworm-slim
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends \
        build-essential ccache git \
        libbz2-1.0 libexpat1 libffi8 liblzma5 libncursesw6 libnsl2 libreadline8 libsqlite3-0 libssl3 libuuid1 zlib1g && \
    apt-get clean && rm -rf /var/lib/apt/lists/*
COPY python /opt/python
# The folder that each was made for is forgotten, and its own library is out of a linker's sight: manylinux has none.
RUN set -eu; \
    for home in /opt/python/*; do \
        old=$(cat "$home/made-for"); rm "$home/made-for"; \
        mv "$home"/lib/libpython3.*.so.1.0 /usr/local/lib/; rm -f "$home"/lib/libpython*; \
        grep -rlIF "$old" "$home" | xargs -r sed -i "s|-Wl,-rpath,$old/lib||g; s|-L$old/lib||g; s|$old|$home|g"; \
    done; \
    ldconfig; \
    for home in /opt/python/*; do \
        [ -e "$home/bin/python" ] || ln -s python3 "$home/bin/python"; \
        "$home/bin/python" -c 'import bz2, ctypes, lzma, readline, sqlite3, ssl, uuid, venv, xml.parsers.expat, zlib'; \
        "$home/bin/python" -I -m ensurepip --default-pip >/dev/null; \
        name=$("$home/bin/python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])'); \
        ln -s "$home/bin/python" "/usr/local/bin/$name"; \
    done
ENV AUDITWHEEL_POLICY=manylinux_2_36 \
    AUDITWHEEL_ARCH=x86_64 \
    AUDITWHEEL_PLAT=manylinux_2_36_x86_64
