"""Keeping the translations: what is said in English anywhere in the product, and what each sentence is in Chinese.

For those who work on the product (`bin/messages`); a running installation reads only what this leaves behind.
"""
