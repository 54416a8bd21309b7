# The program alone, in an otherwise empty image: no shell, nobody but one user
# without a name, nothing that has to be kept up to date beside it.
#
#   docker build -t tidemark --build-arg VERSION="$(git describe --tags --always)" \
#       --build-arg COMMIT="$(git rev-parse HEAD)" --build-arg DATE="$(TZ=UTC git log -1 --date=iso-strict-local --format=%cd)" .
#   docker run --rm --network host --read-only -v tidemark:/data tidemark serve
#
# PROGRAM=prebuilt takes bin/image/, which has to hold usr/bin/tidemark,
# etc/ssl/certs/ca-certificates.crt and an empty data/, instead of building from
# source.
ARG GO=1.26.8
ARG PROGRAM=build

FROM golang:${GO} AS build
WORKDIR /source
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG COMMIT
ARG DATE
ARG TARGETOS
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X main.version=${VERSION#v} -X main.commit=${COMMIT} -X main.date=${DATE}" \
        -o /image/usr/bin/tidemark ./cmd/tidemark && \
    install -D -m 0644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt && \
    mkdir /image/data

FROM scratch AS prebuilt
COPY bin/image/ /image/

FROM ${PROGRAM} AS chosen

FROM scratch
# The certificates are for models, issuers and webhooks. Time zones are in the
# program.
COPY --from=chosen /image/usr /usr
COPY --from=chosen /image/etc /etc
# The home of the user, and all that is ever written to: sessions in
# .local/share/tidemark, keys in .config/tidemark, both closed to others. A new
# volume takes its owner from here.
COPY --from=chosen --chown=65532:65532 /image/data /data
ENV HOME=/data
VOLUME /data
WORKDIR /data
USER 65532:65532
EXPOSE 7433
ARG VERSION=devel
ARG COMMIT
LABEL org.opencontainers.image.title="tidemark" \
      org.opencontainers.image.description="Durable sessions for AI agents" \
      org.opencontainers.image.source="https://github.com/tidemark-sessions/tidemark" \
      org.opencontainers.image.documentation="https://github.com/tidemark-sessions/tidemark/blob/main/docs/guide/install.md" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s --retries=3 \
    CMD ["/usr/bin/tidemark", "version", "--server", "http://127.0.0.1:7433"]
ENTRYPOINT ["/usr/bin/tidemark"]
CMD ["serve"]
