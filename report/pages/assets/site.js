// What pages gain with scripts: copy buttons, sortable tables, ages of dates. Everything is readable without.
(() => {
  "use strict";

  function copyButtons() {
    for (const button of document.querySelectorAll("button[data-copy]")) {
      const code = button.parentElement.querySelector("code");
      button.hidden = false;
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(code.textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(code); // no clipboard here, such as from file://
          button.textContent = "Press Ctrl+C";
        }
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
    }
  }

  // A cell's value: its data-value where it has one, else its text. Missing values sort last in both directions.
  function valueOf(row, column) {
    const cell = row.cells[column];
    if (!cell || (cell.colSpan > 1)) return null;
    const text = cell.dataset.value ?? cell.textContent.trim();
    if (text === "" || text === "—") return null;
    const number = Number(text);
    return Number.isNaN(number) ? text : number;
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sortableTables() {
    for (const table of document.querySelectorAll("table[data-sortable]")) {
      const body = table.tBodies[0];
      const original = [...body.rows];
      if (original.length < 3) continue;
      [...table.tHead.rows[0].cells].forEach((head, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => {
          const next = { none: "ascending", ascending: "descending", descending: "none" }[head.ariaSort ?? "none"];
          for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
          const rows = [...original];
          if (next !== "none") {
            head.setAttribute("aria-sort", next);
            const sign = next === "ascending" ? 1 : -1;
            rows.sort((one, other) => {
              const a = valueOf(one, column), b = valueOf(other, column);
              if (a === null || b === null) return (a === null) - (b === null);
              return sign * compare(a, b);
            });
          }
          body.append(...rows);
        });
      });
    }
  }

  // Ages are worked out here and not when the site is built, so that the same results give the same pages.
  function ages() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const days = Math.floor((Date.now() - Date.parse(time.dateTime)) / 86400000);
      if (days >= 0) time.title = `${time.dateTime}, ${days === 0 ? "today" : days === 1 ? "yesterday" : `${days} days ago`}`;
    }
  }

  copyButtons();
  sortableTables();
  ages();
})();
