"""Findings and changes as text for people and as versioned JSON. Only here do records become words."""
