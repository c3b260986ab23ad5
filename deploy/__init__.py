"""Deploying the service: an image, a Helm chart, plain manifests made from it, and the whole stack for compose."""
