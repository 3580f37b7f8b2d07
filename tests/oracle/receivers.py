"""Receivers of alerts: SMTP by aiosmtpd (plain, and with STARTTLS demanded), HTTP for webhooks and Slack, and a way to a real
Alertmanager that notes what it took. What is accepted is noted in accepted.jsonl before the sender is told so.

    receivers.py FOLDER PORTS KEY

PORTS is JSON: smtp, starttls, http, alertmanager. FOLDER holds cert.pem and key.pem; faults.json there says what goes wrong, by channel:
"500", "refuse" (HTTP 403, SMTP 550), "hang", {"after": N} (429 with Retry-After, once), and "delay": how long accepting takes, in ms.
Ends with its standard input.
"""

import hashlib
import hmac
import json
import os
import random
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aiosmtpd.controller import Controller

folder, ports, key = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].encode()
lock = threading.Lock()
asked = set()


def fault(channel):
    try:
        with open(os.path.join(folder, "faults.json")) as file:
            return json.load(file).get(channel)
    except (FileNotFoundError, ValueError):
        return None


def note(kind, channel, **what):
    with lock, open(os.path.join(folder, f"{kind}.jsonl"), "a") as file:
        file.write(json.dumps({"channel": channel, "at": time.time(), **what}) + "\n")


def dawdle():
    """Between acceptance and answer: a kill may fall here."""
    time.sleep(random.random() * (fault("delay") or 0) / 1000)


class Mail:
    def __init__(self, channel):
        self.channel = channel

    async def handle_DATA(self, server, session, envelope):
        wrong = fault(self.channel)
        note("tried", self.channel)
        if wrong == "500":
            return "451 not now"
        if wrong == "refuse":
            return "550 never"
        if wrong == "hang":
            time.sleep(3)
            return "451 too late"
        mail = message_from_bytes(envelope.content, policy=policy.default)
        body = mail.get_content()
        note("accepted", self.channel, id=mail["X-Plimsoll-Id"], message_id=mail["Message-ID"], to=envelope.rcpt_tos, subject=mail["Subject"],
             sender=envelope.mail_from, text=body, tls=session.ssl is not None, headers=[name for name, _ in mail.items()])
        dawdle()
        return "250 taken"


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        channel = self.path.split("/")[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        note("tried", channel)
        wrong = fault(channel)
        if wrong == "500":
            return self.answer(503, b"down")
        if wrong == "refuse":
            return self.answer(403, b"not you")
        if wrong == "hang":
            time.sleep(3)
            return self.answer(503)
        if isinstance(wrong, dict) and channel not in asked:
            asked.add(channel)
            return self.answer(429, b"slowly", [("Retry-After", str(wrong["after"]))])
        what = {"path": self.path, "id": self.headers.get("X-Plimsoll-Id"), "authorization": self.headers.get("Authorization")}
        what["body"] = json.loads(body)
        if channel == "hook":
            stamp = self.headers["X-Plimsoll-Timestamp"]
            sign = "v1=" + hmac.new(key, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
            what["signed"] = hmac.compare_digest(sign, self.headers["X-Plimsoll-Signature"]) and abs(time.time() - int(stamp)) < 60
        if channel == "pages":
            request = urllib.request.Request(f"http://127.0.0.1:{ports['alertmanager']}{self.path.removeprefix('/pages')}", body,
                                             {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    status = answer.status
            except urllib.error.HTTPError as error:
                return self.answer(error.code, error.read())
            except OSError:
                return self.answer(502, b"Alertmanager is down")
            if status != 200:
                return self.answer(status)
        note("accepted", channel, **what)
        dawdle()
        self.answer(200, b"ok")

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # killed

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
servers = [
    Controller(Mail("mail"), hostname="127.0.0.1", port=ports["smtp"]),
    Controller(Mail("mails"), hostname="127.0.0.1", port=ports["starttls"], tls_context=context, require_starttls=True),
]
for server in servers:
    server.start()
http = ThreadingHTTPServer(("127.0.0.1", ports["http"]), Http)
http.daemon_threads = True
threading.Thread(target=http.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
