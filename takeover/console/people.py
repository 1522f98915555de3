"""Who is signed in, with what they may do and the roles that they have: one query for a page, not four."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User

WITH_ROLES = """
SELECT auth_user.*,
       ARRAY(SELECT name FROM auth_group JOIN auth_user_groups AS mine ON mine.group_id = auth_group.id
              WHERE mine.user_id = auth_user.id) AS roles,
       ARRAY(SELECT app_label || '.' || codename
               FROM auth_permission AS permission
               JOIN django_content_type AS type ON type.id = permission.content_type_id
              WHERE permission.id IN (
                    SELECT permission_id FROM auth_user_user_permissions WHERE user_id = auth_user.id
                    UNION ALL
                    SELECT permission_id FROM auth_group_permissions
                      JOIN auth_user_groups USING (group_id) WHERE user_id = auth_user.id)) AS granted
  FROM auth_user WHERE auth_user.id = %s
"""


class People(ModelBackend):
    def get_user(self, user_id: int) -> User | None:
        found: Any = next(iter(User.objects.raw(WITH_ROLES, [user_id])), None)
        if found:
            found.granted = set(found.granted)
        return found if self.user_can_authenticate(found) else None

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        if obj is not None or not user_obj.is_active or user_obj.is_superuser or "granted" not in vars(user_obj):
            return super().get_all_permissions(user_obj, obj)
        granted: set[str] = user_obj.granted
        return granted
