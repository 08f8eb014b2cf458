// Passkeys on the pages of the sign-in: the page says in its data what a device is to sign, the form takes the answer.
"use strict";

(() => {
  const form = document.querySelector("form[data-sign], form[data-add]");
  if (!form || !window.PublicKeyCredential || !navigator.credentials) return;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const answered = (credential) => {
    const response = { clientDataJSON: text(credential.response.clientDataJSON) };
    for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return JSON.stringify({ id: credential.id, rawId: text(credential.rawId), type: credential.type, response });
  };
  const tell = (words) => {
    const place = document.getElementById("passkey-said");
    place.textContent = words;
    place.hidden = false;
  };
  const asking = async (button, ask) => {
    button.disabled = true;
    try {
      await ask();
    } catch (error) {
      tell(error.name === "InvalidStateError" ? button.dataset.known : button.dataset.failed);
    }
    button.disabled = false;
  };

  const sign = document.getElementById("use-passkey");
  if (sign) {
    const options = JSON.parse(form.dataset.sign).publicKey;
    options.challenge = bytes(options.challenge);
    sign.addEventListener("click", () =>
      asking(sign, async () => {
        form.elements.passkey.value = answered(await navigator.credentials.get({ publicKey: options }));
        form.requestSubmit(document.getElementById("by-passkey"));
      }),
    );
  }
  const add = document.getElementById("add-passkey");
  if (add) {
    const options = JSON.parse(form.dataset.add).publicKey;
    options.challenge = bytes(options.challenge);
    options.user.id = bytes(options.user.id);
    add.addEventListener("click", () =>
      asking(add, async () => {
        form.elements.passkey.value = answered(await navigator.credentials.create({ publicKey: options }));
        tell(add.dataset.done);
      }),
    );
  }
  for (const part of document.querySelectorAll("[data-passkeys]")) part.hidden = false;
})();
