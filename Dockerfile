FROM python:3.13-slim

ENV PYTHONUNBUFFERED=1 TAKEOVER_DATA_DIR=/var/lib/takeover
WORKDIR /srv/takeover

COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock

COPY manage.py ./
COPY runs runs
COPY takeover takeover
COPY templates templates
COPY static static
RUN useradd --system --create-home --home-dir "$TAKEOVER_DATA_DIR" takeover \
    && install -d -o takeover "$TAKEOVER_DATA_DIR/documents" \
    && SECRET_KEY=unused-while-building python manage.py collectstatic --no-input --verbosity 0

USER takeover
EXPOSE 8000
# An open stream of live updates would hold the shutdown up for ever, hence the time-out.
CMD ["python", "-m", "uvicorn", "takeover.asgi:application", "--host", "0.0.0.0", "--port", "8000", \
     "--http", "h11", "--lifespan", "off", "--timeout-graceful-shutdown", "3", "--no-access-log"]
