# An image in manylinux layout: interpreters below /opt/python and nowhere else, AUDITWHEEL_PLAT.
FROM debian:bookworm-slim
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends build-essential ccache git python3-dev python3-venv && \
    apt-get clean && rm -rf /var/lib/apt/lists/*
RUN mkdir -p /opt/python/cp311-cp311/bin && \
    mv /usr/bin/python3.11 /opt/python/cp311-cp311/bin/ && \
    rm /usr/bin/python3 && \
    ln -s python3.11 /opt/python/cp311-cp311/bin/python && \
    ln -s /usr/lib /usr/include /opt/python/cp311-cp311/
ENV AUDITWHEEL_PLAT=manylinux_2_36_x86_64 \
    AUDITWHEEL_ARCH=x86_64
