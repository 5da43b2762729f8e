# Debian's own package of the registry: no image has to be pulled.
FROM debian:bookworm-slim
RUN apt-get update -qq && \
    apt-get install -y -qq --no-install-recommends docker-registry && \
    apt-get clean && rm -rf /var/lib/apt/lists/*
# The package's own configuration asks for a password.
COPY <<'EOT' /etc/docker/registry/config.yml
version: 0.1
storage:
  filesystem:
    rootdirectory: /var/lib/registry
http:
  addr: :5000
EOT
CMD ["docker-registry", "serve", "/etc/docker/registry/config.yml"]
