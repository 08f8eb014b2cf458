# The memory server in a container: MCP over stdin and stdout, or over HTTP with `serve --http`.
#
#   docker build --tag pgengram .
#   docker run --rm --interactive --read-only --tmpfs /tmp --volume memories:/data pgengram
#   docker run --rm --detach --read-only --tmpfs /tmp --volume memories:/data --publish 127.0.0.1:8811:8811 pgengram \
#     serve --http --host 0.0.0.0 --allowed-host localhost
#
# No --tty: it would break the frames. Everything that is kept lies in /data; nothing else is written but /tmp.

FROM python:3.13-slim AS built
WORKDIR /src
COPY constraints.txt ./
RUN pip download --require-hashes --only-binary :all: --requirement constraints.txt --dest /wheels
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY migrations migrations
RUN python -m venv /opt/pgengram && /opt/pgengram/bin/pip install --no-cache-dir --no-index --find-links /wheels .

FROM python:3.13-slim
LABEL org.opencontainers.image.title="pgengram" \
      org.opencontainers.image.description="Long-term memory in your own PostgreSQL: found by meaning and words, offline by default." \
      org.opencontainers.image.licenses="MIT" \
      io.modelcontextprotocol.server.name="io.github.pgengram/pgengram"
RUN groupadd --gid 10001 memory \
    && useradd --uid 10001 --gid memory --home-dir /data --no-create-home --shell /usr/sbin/nologin memory \
    && install --directory --owner memory --group memory --mode 0700 /data
COPY --from=built /opt/pgengram /opt/pgengram
ENV PATH=/opt/pgengram/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PGENGRAM_DATA_DIR=/data/store
USER memory
WORKDIR /data
VOLUME /data
EXPOSE 8811
STOPSIGNAL SIGTERM
# Served over HTTP, /ready tells whether the database answers, too. Over stdio the client sees for itself, and nobody listens here.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import pathlib, urllib.request as r; b'--http' in pathlib.Path('/proc/1/cmdline').read_bytes().split(b'\\0') and r.urlopen('http://127.0.0.1:8811/ready', timeout=8)"]
ENTRYPOINT ["pgengram"]
