# The server in a small image, as a user without rights:
#   docker build -t peerage . && docker run -p 127.0.0.1:8400:8400 -v peerage:/data peerage
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/peerage \
    && /opt/peerage/bin/pip install --no-cache-dir '.[server,mcp,postgres]'

FROM python:3.13-slim
COPY --from=build /opt/peerage /opt/peerage
# All that is kept is in /data: the store, what is made of it, and peerage.toml if there is one.
ENV PATH=/opt/peerage/bin:$PATH PYTHONUNBUFFERED=1 \
    PEERAGE_STORE=sqlite:////data/peerage.db PEERAGE_DATA=/data
RUN useradd --create-home --uid 10001 peerage && mkdir /data && chown peerage /data
USER peerage
WORKDIR /data
VOLUME /data
EXPOSE 8400
HEALTHCHECK --interval=30s --timeout=5s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8400/readyz/store', timeout=4)"]
STOPSIGNAL SIGTERM
# It listens beyond its own container, so the store needs a token first: see docs/server.md.
ENTRYPOINT ["peerage"]
CMD ["serve", "--host", "0.0.0.0"]
