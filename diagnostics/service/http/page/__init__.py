"""The page: what is wrong now and why, for someone who was just woken up.

Every address is a whole page that is made here and can be read without scripts. The script only asks for the same
content again, without the frame around it, when something has changed.
"""

from diagnostics.service.http.page.pages import router

__all__ = ["router"]
