"""Who is signed in, and what they may do, as every page learns it."""

from collections.abc import Callable

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission, User

from takeover.console import desk
from takeover.console.people import People

Assert = Callable[[int], object]


def test_what_a_person_may_do_and_which_roles_they_have_takes_one_query(
    alice: User, django_assert_num_queries: Assert
) -> None:
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        found = People().get_user(alice.pk)
        assert found
        assert desk.may_look(found)
        assert desk.role_of(found)
    assert desk.role_of(found) == desk.role_of(alice)


@pytest.mark.parametrize("who", ["alice", "bob", "ada", "charlie"])
def test_a_person_may_what_their_roles_and_they_themselves_may(who: str, request: pytest.FixtureRequest) -> None:
    person = request.getfixturevalue(who)
    person.user_permissions.add(Permission.objects.get(content_type__app_label="auth", codename="view_group"))
    found = People().get_user(person.pk)
    assert found
    assert found.has_perm("auth.view_group")
    assert found.get_all_permissions() == ModelBackend().get_all_permissions(User.objects.get(pk=person.pk))


def test_whoever_is_not_active_any_more_is_nobody(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert People().get_user(alice.pk) is None
    assert People().get_user(0) is None


def test_a_superuser_may_everything(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_superuser=True)
    found = People().get_user(alice.pk)
    assert found
    assert found.get_all_permissions() == User.objects.get(pk=alice.pk).get_all_permissions()
    assert found.has_perm("auth.delete_user")
