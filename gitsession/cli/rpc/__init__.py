"""The JSON-RPC server of ``gitsession rpc`` (docs/reference/rpc.md).

``methods`` has the table of the methods, ``schema`` describes and checks their parameters, and ``server`` reads
requests and writes answers.
"""
