"use strict";
// The theme chosen in this browser, before anything is painted: one stylesheet holds the dark colours, and `media` turns it on.

const THEMES = { system: "(prefers-color-scheme: dark)", light: "not all", dark: "all" };
const THEME = "pgengram theme"; // in localStorage
const darkColours = document.getElementById("dark");
const isDark = () => matchMedia(darkColours.media).matches;

function theme() {
  const chosen = localStorage.getItem(THEME);
  return Object.keys(THEMES).includes(chosen) ? chosen : "system";
}

darkColours.media = THEMES[theme()];
