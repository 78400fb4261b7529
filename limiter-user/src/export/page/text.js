// Writes texts and rows of tables so that selected text stays selected and can be copied.

/** True if some text of the node is selected. */
export function isSelected(node) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(node, true);
}

/** Sets the text of an element, unless it has this text, or text of it is selected. */
export function write(element, text) {
  if (element.textContent !== text && !isSelected(element)) element.textContent = text;
}

/** Shows an element with its text, or hides it without one. */
export function showOrHide(element, text) {
  element.hidden = !text;
  if (typeof text === "string") write(element, text);
}

/**
 * Sets the rows of a table's body: [key, cells], each cell [text, class]. A row keeps its element, which moves with its
 * key. While text of the body is selected, no row comes, goes or moves, because that would end the selection. Each cell
 * knows its heading, for screens that are too narrow for columns.
 */
export function fill(body, rows) {
  const headings = [...body.parentElement.querySelectorAll("th")].map((heading) => heading.textContent);
  const known = new Map([...body.rows].map((line) => [line.dataset.key, line]));
  const lines = rows.map(([key, cells]) => {
    const line = known.get(key) ?? document.createElement("tr");
    line.dataset.key = key;
    cells.forEach(([text, kind = ""], index) => {
      const cell = line.cells[index] ?? line.insertCell();
      write(cell, text);
      cell.className = kind;
      if (headings[index]) cell.dataset.heading = headings[index];
    });
    return line;
  });
  const isSame = lines.length === body.rows.length && lines.every((line, index) => line === body.rows[index]);
  if (!isSame && !isSelected(body)) body.replaceChildren(...lines);
}
