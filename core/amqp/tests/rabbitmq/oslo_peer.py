"""A service on the real oslo.messaging: it answers each line, a JSON object with "do", with a line.

    oslo_peer.py URL CONFIGURATION
"""

import json
import sys
import threading
import time
import types

import kombu
import oslo_messaging
from oslo_config import cfg
from oslo_messaging._drivers import amqp
from oslo_messaging._drivers import impl_rabbit

# What the service of the other side raises, and what it may raise here again.
exception = types.ModuleType('nova.exception')


class ComputeHostNotFound(Exception):
    def __init__(self, message=None, host=None):
        self.kwargs = {'host': host}
        super().__init__(message or f'Compute host {host} is not there.')


ComputeHostNotFound.__module__ = 'nova.exception'
exception.ComputeHostNotFound = ComputeHostNotFound
sys.modules['nova'] = types.ModuleType('nova')
sys.modules['nova.exception'] = exception

# oslo.messaging registers some of its options here alone.
conf = cfg.CONF
conf(['--config-file', sys.argv[2]], project='peer')
url = sys.argv[1]
transport = oslo_messaging.get_rpc_transport(
    conf, url=url, allowed_remote_exmods=['nova.exception'])
casts = []
arrived = threading.Condition()


class Endpoint:
    target = oslo_messaging.Target(version='3.0')

    def echo(self, ctxt, **args):
        return {'context': ctxt, 'args': args}

    def refuse(self, ctxt, host):
        raise ComputeHostNotFound(host=host)

    def sleep(self, ctxt, seconds):
        time.sleep(seconds)
        return 'slept'

    def note(self, ctxt, **args):
        with arrived:
            casts.append(args)
            arrived.notify_all()


def target(order):
    names = ('exchange', 'topic', 'server', 'fanout', 'version', 'namespace')
    return oslo_messaging.Target(
        **{name: order[name] for name in names if name in order})


def client(order):
    return oslo_messaging.get_rpc_client(transport, target(order)).prepare(
        timeout=order.get('timeout', 30),
        call_monitor_timeout=order.get('monitor'))


def do(order):
    what = order['do']
    if what == 'serve':
        server = oslo_messaging.get_rpc_server(
            transport, target(order), [Endpoint()], executor='threading')
        server.start()
        return 'serving'
    if what == 'call':
        try:
            return {'result': client(order).call(
                order.get('context', {}), order['method'], **order['args'])}
        except Exception as error:
            return {'class': type(error).__name__,
                    'module': type(error).__module__,
                    'text': str(error),
                    'kwargs': getattr(error, 'kwargs', None)}
    if what == 'cast':
        client(order).cast(
            order.get('context', {}), order['method'], **order['args'])
        return 'sent'
    if what == 'defaults':
        options = impl_rabbit.rabbit_opts + amqp.amqp_opts
        return {option.dest: option.default for option in options}
    if what == 'casts':
        with arrived:
            arrived.wait_for(lambda: len(casts) >= order['count'], 30)
            return list(casts)
    broker = kombu.Connection(url.replace('rabbit:', 'amqp:'))
    with broker, broker.channel() as channel:
        if what == 'delete_queue':
            channel.queue_delete(order['queue'])
            return 'deleted'
        if what == 'put':
            kombu.Producer(channel).publish(
                order['body'].encode(), routing_key=order['queue'],
                content_type='application/json', content_encoding='utf-8')
            return 'put'
        if what == 'length':
            declared = channel.queue_declare(order['queue'], passive=True)
            return declared.message_count


for line in sys.stdin:
    try:
        answer = {'ok': do(json.loads(line))}
    except Exception as error:
        answer = {'error': repr(error)}
    print(json.dumps(answer), flush=True)
