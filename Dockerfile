# The server in a small image, as a user without rights. The keys of models choose the seats:
#   docker build -t peerage .
#   docker run -p 127.0.0.1:8400:8400 -v peerage:/data -e OPENROUTER_API_KEY peerage
# The first start prints a token of scope admin; see docs/server.md.
FROM python:3.11-slim-trixie@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff AS build
WORKDIR /src
# The dependencies are a layer of their own, which a change of the code does not rebuild. Each file
# is installed by its hash, and what builds the package stays in /opt/build.
COPY locks ./locks
RUN python -m venv /opt/peerage \
    && /opt/peerage/bin/pip install --no-cache-dir --require-hashes --no-deps \
        -r locks/base.txt -r locks/server.txt -r locks/mcp.txt -r locks/postgres.txt \
        -r locks/telemetry.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes --no-deps -r locks/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
    && /opt/peerage/bin/pip install --no-cache-dir --no-index --no-deps /opt/wheels/*.whl

FROM python:3.11-slim-trixie@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff
COPY --from=build /opt/peerage /opt/peerage
# All data is in /data: the store, the mirror for analytics, and peerage.toml if there is one. The
# file is named here, so that it may belong to any user, and do what it says.
ENV PATH=/opt/peerage/bin:$PATH PYTHONUNBUFFERED=1 HOME=/data \
    PEERAGE_STORE=sqlite:////data/peerage.db PEERAGE_DATA=/data PEERAGE_CONFIG=/data
RUN install --directory --owner=10001 --group=10001 /data
# A number, because Kubernetes checks by the number that a user is not root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8400
HEALTHCHECK --interval=30s --timeout=5s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8400/readyz/store', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["peerage"]
CMD ["serve", "--host", "0.0.0.0", "--first-token"]
