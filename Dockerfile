# syntax=docker/dockerfile:1
FROM swift:6.3-bookworm AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends \
        pkg-config libmicrohttpd-dev libcurl4-openssl-dev libpq-dev libssl-dev \
        zlib1g-dev libbrotli-dev libidn2-dev libpsl-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
# The dependencies change rarely: they have a layer of their own.
COPY Package.swift ./
RUN swift package resolve
COPY migrations ./migrations
COPY Sources ./Sources
COPY Tests ./Tests
# Not built, but a target whose folder is missing makes the package invalid.
COPY Benchmarks/Micro ./Benchmarks/Micro
RUN swift build -c release --product ferry --static-swift-stdlib \
    && install -s -D "$(swift build -c release --show-bin-path)/ferry" /image/usr/local/bin/ferry

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="Ferry" \
      org.opencontainers.image.description="Background downloads and uploads as a service"
# What the binary links; tzdata and certificates for what it talks to.
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends \
        libcurl4 libmicrohttpd12 libpq5 libssl3 zlib1g libbrotli1 libidn2-0 libpsl5 publicsuffix ca-certificates \
        tzdata \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 ferry \
    && useradd --system --uid 10001 --gid ferry --home-dir /var/lib/ferry --no-create-home ferry \
    && install -d -o ferry -g ferry -m 0750 /var/lib/ferry
COPY --from=build /image/ /
USER 10001:10001
ENV FERRY_LISTEN=0.0.0.0:8080 \
    FERRY_DATA_DIR=/var/lib/ferry \
    FERRY_URL=http://127.0.0.1:8080 \
    FERRY_LOG_FORMAT=json
VOLUME /var/lib/ferry
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 CMD ["ferry", "healthcheck"]
ENTRYPOINT ["ferry"]
CMD ["serve"]
