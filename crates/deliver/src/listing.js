// A head sorts by its column; folders stay before files, and the way up stays first.
const heads = [...document.querySelectorAll('th')], body = document.querySelector('tbody');
heads.forEach((head, at) => head.firstChild.addEventListener('click', () => {
  const down = head.ariaSort === 'ascending';
  heads.forEach((other) => other.removeAttribute('aria-sort'));
  head.ariaSort = down ? 'descending' : 'ascending';
  const value = (row) => row.children[at].dataset.value ?? row.children[at].textContent;
  const order = (a, b) => at ? value(a) - value(b) : value(a).localeCompare(value(b), undefined, { numeric: true });
  const rows = [...body.querySelectorAll('tr[data-kind]')];
  rows.sort((a, b) => b.dataset.kind.localeCompare(a.dataset.kind) || (down ? -1 : 1) * order(a, b));
  body.append(...rows);
}));
