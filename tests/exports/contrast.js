// Every text of the page whose contrast with its ground is below what WCAG 2.2 asks (1.4.3), and
// every part of a picture below 3 (1.4.11). Colours are those that the browser rendered.
() => {
  const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
  const luminance = (color) => {
    const [r, g, b] = numbers(color).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const opaque = (color) => numbers(color).length === 3;
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (opaque(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const check = (color, element, least, what) => {
    const got = contrast(color, ground(element));
    if (!opaque(color) || got < least) found.push(`${what}: ${color} ${got.toFixed(2)}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("title, style") || !element.getClientRects().length)
      continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    check(element.closest("svg") ? style.fill : style.color, element, large ? 3 : 4.5, node.data);
    texts += 1;
  }
  for (const part of document.querySelectorAll("svg .phase, svg .mark, svg .card, svg .edge")) {
    const style = getComputedStyle(part), filled = part.matches(".phase");
    check(filled ? style.fill : style.stroke, part, 3, part.getAttribute("class"));
  }
  return {texts, found};
}
