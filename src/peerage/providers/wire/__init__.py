"""What goes over the wire to an OpenAI-compatible endpoint: pooled HTTP, the SDK, the documents.

The heavy packages are imported by the modules in here and nowhere else; nothing in here
registers a provider, so looking one up loads none of them.
"""
