#!/usr/bin/env python3
"""A validating webhook over HTTPS that takes its time. usage: webhook.py PKI PORT; a line on stdin sets the seconds."""
import asyncio
import random
import ssl
import sys

from aiohttp import web

DELAY = [0.004, 0.012]


async def review(request):
    uid = (await request.json())['request']['uid']
    await asyncio.sleep(random.uniform(*DELAY))
    return web.json_response({'apiVersion': 'admission.k8s.io/v1', 'kind': 'AdmissionReview',
                              'response': {'uid': uid, 'allowed': True}})


def line():
    s = sys.stdin.readline()
    if s:
        DELAY[:] = [float(x) for x in s.split()]


async def start(app):
    asyncio.get_running_loop().add_reader(sys.stdin, line)

if __name__ == '__main__':
    ctx = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ctx.load_cert_chain(f'{sys.argv[1]}/webhook.crt', f'{sys.argv[1]}/webhook.key')
    app = web.Application()
    app.router.add_post('/validate', review)
    app.on_startup.append(start)
    web.run_app(app, host='127.0.0.1', port=int(sys.argv[2]), ssl_context=ctx, print=None)
