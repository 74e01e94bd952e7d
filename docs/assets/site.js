// What can be scrolled can be reached with the keyboard. The theme takes that away from some blocks again.
const focusable = () => {
  for (const wide of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .md-typeset__table"))
    if (wide.tabIndex !== 0) wide.tabIndex = 0;
};
focusable();
new MutationObserver(focusable).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["tabindex"] });
