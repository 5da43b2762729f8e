# What a bundle asks for, on Debian and nothing else.
FROM debian:bookworm-slim
RUN --mount=type=secret,id=ca-bundle,target=/run/ca.pem \
    echo 'Acquire::https::CAInfo "/run/ca.pem";' > /etc/apt/apt.conf.d/ca && apt-get update && \
    apt-get install -y --no-install-recommends python3 python3-venv && rm /etc/apt/apt.conf.d/ca
COPY requirements.txt /
RUN --mount=type=secret,id=ca-bundle,target=/run/ca.pem \
    if [ -s /run/ca.pem ]; then export PIP_CERT=/run/ca.pem; fi; \
    python3 -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir -r requirements.txt
ENV PATH=/opt/venv/bin:/usr/bin:/bin
