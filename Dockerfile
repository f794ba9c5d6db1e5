# The server in a small image, as a user without rights. The keys of models choose the seats:
#   docker build -t peerage .
#   docker run -p 127.0.0.1:8400:8400 -v peerage:/data -e OPENROUTER_API_KEY peerage
# The first start prints a token of scope admin; see docs/server.md.
FROM python:3.11-slim AS build
WORKDIR /src
# The dependencies are a layer of their own, which a change of the code does not rebuild.
COPY pyproject.toml requirements-dev.lock ./
RUN python -m venv /opt/peerage \
    && python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = [p['optional-dependencies'][name] for name in ('server', 'mcp', 'postgres', 'telemetry')]; \
print(*p['dependencies'], *sum(extras, []), sep='\n')" > requirements.txt \
    && /opt/peerage/bin/pip install --no-cache-dir --constraint requirements-dev.lock \
        --requirement requirements.txt
COPY README.md LICENSE ./
COPY src ./src
RUN /opt/peerage/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim
COPY --from=build /opt/peerage /opt/peerage
# All data is in /data: the store, the mirror for analytics, and peerage.toml if there is one.
ENV PATH=/opt/peerage/bin:$PATH PYTHONUNBUFFERED=1 HOME=/data \
    PEERAGE_STORE=sqlite:////data/peerage.db PEERAGE_DATA=/data
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
