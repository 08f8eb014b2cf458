"""The pages of the settings: what can be set, export, import, tokens, connections and sign-ins."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from pgengram import fields as f
from pgengram.errors import ConfirmRequired, InvalidInput, NotFound, NotReady, PgengramError
from pgengram.service.conversations import Conversations
from pgengram.store.clients.tokens import SIGN_IN_KEY, Scope
from pgengram.store.connection.database import Transaction
from pgengram.store.recovery import imports
from pgengram.transfer.importers import SYSTEMS
from pgengram.transfer.importers.rows import FIELDS
from pgengram.ui.pages.page_application import STATUS, UNREADY, PageApplication
from pgengram.ui.view_data.jobs import Absent
from pgengram.ui.view_data.programs import machines_of
from pgengram.ui.view_data.query_values import number_given, whole_number


class SettingsPages(PageApplication):
    """What can be set, export, import, tokens and sign-ins."""

    async def settings(self, _: Request) -> Response:
        """Show what can be set."""
        try:
            return await self._settings()
        except NotReady as error:  # the backup that was asked for; it is told once
            return await self._settings(UNREADY, error=error)

    async def _settings(self, status: int = 200, **more: Any) -> Response:
        shown: dict[str, Any] = {
            "state": await Conversations(self.views.manager).state(),
            "backups": self.views.backups.state(),
            "assistants": await self.views.assistants(),
            "machines": await machines_of(self.views.manager),
            "signed_in": len(self.sign_ins.all()),
            "connected": sum(one["is_good"] for one in await self.views.programs.all()),
            "secrets": self.views.manager.settings.secrets,
            "most_days": f.MAX_KEEP_DAYS,
            "asked": None,
            "error": None,
        }
        return self._page("settings.html", status, here="/settings", **shown | more)

    async def keep_conversations(self, request: Request) -> Response:
        """Set whether conversations are kept and how long; ask first if that erases some."""
        fields = await self.session_guard.form(request)
        kept, keeps = Conversations(self.views.manager), "keeps" in fields
        days = whole_number(fields.get("keep_days"), 1)
        if days > f.MAX_KEEP_DAYS:
            raise InvalidInput(f"Conversations are kept for 1 to {f.MAX_KEEP_DAYS:,} days.")
        older = await kept.older_than(days)
        if older and "sure" not in fields and days < (await kept.state())["keep_days"]:
            return await self._settings(asked={"keeps": keeps, "keep_days": days, "older": older})
        await kept.set_keeping(keeps=keeps, keep_days=days)
        period = f"Conversations are kept for {days:,} {'day' if days == 1 else 'days'} from now on"
        return self._then("/settings", period if keeps else "Conversations are no longer kept")

    async def back_up(self, request: Request) -> Response:
        """Begin to make a backup."""
        await self.session_guard.form(request)
        self.views.backups.begin()
        return RedirectResponse("/settings", 303)

    async def export(self, request: Request) -> Response:
        """Show how far an export is."""
        job = self.views.export.job
        return self._progress(request, "export.html", "/export", job=job, counts=job.result())

    async def start_export(self, request: Request) -> Response:
        """Begin an export."""
        await self.session_guard.form(request)
        self.views.export.begin()
        return RedirectResponse("/export", 303)

    async def download(self, _: Request) -> Response:
        """Hand the exported file over."""
        if self.views.export.job.result() is None:
            raise Absent("There is no finished export.", "Start one and wait until it is finished.")
        path = self.views.export.path
        return FileResponse(path, filename=path.name, media_type="application/jsonl")

    async def import_(self, request: Request) -> Response:
        """Show what a file holds, how far it is imported, and what that came to."""
        arriving = self.views.arriving
        earlier = [] if arriving.job.running else await self.views.manager.store.read_transaction(imports.noted_imports)
        try:
            imported = arriving.result()
        except PgengramError as error:
            arriving.forget()
            hint = error.hint.replace(str(arriving.path), "the file")
            message = error.message.replace(str(arriving.path), "The file")
            shown: dict[str, Any] = {
                "arriving": arriving,
                "job": arriving.job,
                "imported": None,
                "earlier": earlier,
                "error": InvalidInput(message, hint),
            }
            return self._page("import.html", STATUS.get(error.code, UNREADY), here="/import", **shown)
        shown = {"arriving": arriving, "imported": imported, "earlier": earlier, "error": None}
        return self._progress(request, "import.html", "/import", job=arriving.job, **shown)

    async def give(self, request: Request) -> Response:
        """Take a file, and begin to look through it."""
        arriving = self.views.arriving
        arriving.refuse_second()
        fields, name = await self.session_guard.upload(request, arriving.path)
        system = fields.get("system", "")
        if system and system not in SYSTEMS:
            raise InvalidInput("Say which system the file is of.", f"Use one of {', '.join(SYSTEMS)}.")
        arriving.preview(name, system)
        return RedirectResponse("/import", 303)

    async def map_columns(self, request: Request) -> Response:
        """Look through a file whose columns are named now."""
        fields = await self.session_guard.form(request)
        self.views.arriving.map({name: column for name in FIELDS if (column := fields.get(name))})
        return RedirectResponse("/import", 303)

    async def bring(self, request: Request) -> Response:
        """Begin to import what was looked at."""
        await self.session_guard.form(request)
        self.views.arriving.bring()
        return RedirectResponse("/import", 303)

    async def break_off(self, request: Request) -> Response:
        """End what is under way."""
        await self.session_guard.form(request)
        await self.views.arriving.break_off()
        self.views.cache.forget()
        return RedirectResponse("/import", 303)

    async def another(self, request: Request) -> Response:
        """Make room for another file."""
        await self.session_guard.form(request)
        self.views.arriving.forget()
        self.views.cache.forget()
        return RedirectResponse("/import", 303)

    async def show_undo(self, request: Request) -> Response:
        """Show what undoing an import would do, and ask."""
        return await self._show_undo(request.query_params.get("id", ""))

    async def _show_undo(self, given: str, error: PgengramError | None = None) -> Response:
        async def planned(tx: Transaction) -> imports.Undo:
            return await imports.planned_undo(tx, (await imports.find_import(tx, given))["id"])

        try:
            undo = await self.views.manager.store.read_transaction(planned)
        except NotFound as unknown:
            raise NotFound("import", given[: f.MAX_TAG], "Choose one on the page Import.") from unknown
        return self._page(
            "import_undo.html", STATUS[error.code] if error else 200, here="/import", undo=undo, error=error
        )

    async def undo_import(self, request: Request) -> Response:
        """Undo an import as it was shown; show it again if something changed since."""
        fields = await self.session_guard.form(request)
        import_id, shown = fields.get("id", ""), fields.get("shown", "")
        try:
            async with self.views.manager.store.transaction() as tx:
                done = await imports.undo_as_shown(tx, (await imports.find_import(tx, import_id))["id"], shown)
        except ConfirmRequired as error:
            return await self._show_undo(import_id, error)
        self.views.cache.forget()
        return self._then("/import", f"The import of {done.row['name']} was undone: {done.summary}.")

    async def tokens(self, _: Request) -> Response:
        """Show the tokens that lead to these memories."""
        return self._page(
            "tokens.html", here="/tokens", tokens=await self.views.tokens(), made="", error=None, typed={}
        )

    async def make_token(self, request: Request) -> Response:
        """Make a token, and show it this once."""
        fields = await self.session_guard.form(request)
        made, error = "", None
        try:
            days = number_given(fields.get("days"), 0)
            scope: Scope = "read-write" if fields.get("scope") == "read-write" else "read-only"
            made = await self.views.make_token(fields.get("name", ""), scope, days if fields.get("days") else None)
        except InvalidInput as refused:
            error = refused
        status, typed = (200, {}) if error is None else (422, fields)
        tokens = await self.views.tokens()
        return self._page("tokens.html", status, here="/tokens", tokens=tokens, made=made, error=error, typed=typed)

    async def revoke_token(self, request: Request) -> Response:
        """Make a token worthless."""
        fields = await self.session_guard.form(request)
        return self._then("/tokens", await self.views.revoke_token(fields.get("id", "")))

    async def connections(self, request: Request) -> Response:
        """Show the programs and browsers that signed in over HTTP, and what happened to them."""
        programs, own = self.views.programs, request.scope.get(SIGN_IN_KEY)
        return self._page(
            "connections.html",
            here="/connections",
            connections=await programs.all(),
            passkeys=await programs.passkeys(),
            log=await programs.log(),
            own=own.id if own else "",
        )

    async def end_connection(self, request: Request) -> Response:
        """End a connection."""
        fields = await self.session_guard.form(request)
        return self._then("/connections", await self.views.programs.end(fields.get("id", "")))

    async def end_passkey(self, request: Request) -> Response:
        """Remove a passkey."""
        fields = await self.session_guard.form(request)
        return self._then("/connections", await self.views.programs.end_passkey(fields.get("id", "")))

    async def show_sign_ins(self, request: Request) -> Response:
        """Show the browsers that are signed in."""
        return self._page(
            "sign_ins.html",
            here="/sign-ins",
            own=self.session_guard.known(request.headers),
            sign_ins=self.sign_ins.all(),
            own_name=self.sign_ins.own_name,
            on_own_name=request.url.hostname == self.sign_ins.own_name,
            host=request.url.hostname,
        )

    async def sign_out(self, request: Request) -> Response:
        """Sign out one browser, or every one."""
        fields = await self.session_guard.form(request)
        if fields.get("everywhere"):
            self.sign_ins.end_all()
        else:
            self.sign_ins.end(fields.get("id", ""))
        if self.session_guard.known(request.headers) is not None:
            return self._then("/sign-ins", "Signed out.")
        answer = self._page("signed_out.html", inside=False)
        answer.delete_cookie(self.session_guard.cookie, path="/", httponly=True, samesite="strict")
        return answer
