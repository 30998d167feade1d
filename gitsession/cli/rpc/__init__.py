"""The JSON-RPC server of ``gitsession rpc`` (docs/reference/rpc.md).

``methods`` has the table of the methods, and ``results`` the types of their results. ``schema`` describes and checks
parameters. ``server`` reads requests and writes answers.
"""
