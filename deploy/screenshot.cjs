// Takes pictures of a running Dagster web interface in headless Chromium.
//
//   npm install playwright-core
//   NODE_PATH=node_modules node deploy/screenshot.cjs http://127.0.0.1:3000 /asset-groups docs/images/asset-graph.png [WIDTHxHEIGHT]
//
// CHROMIUM names the browser; /usr/bin/chromium is what Debian's package installs.

const { chromium } = require("playwright-core");

async function main([origin, page, file, size = "1280x720"]) {
  if (!file) throw new Error("usage: screenshot.cjs ORIGIN PAGE FILE [WIDTHxHEIGHT]");
  const [width, height] = size.split("x").map(Number);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  try {
    const tab = await browser.newPage({ viewport: { width, height } });
    await tab.goto(origin + page, { waitUntil: "domcontentloaded" });
    // The interface never stops asking the server, so idleness is hoped for, not waited for.
    await tab.waitForLoadState("networkidle", { timeout: 6000 }).catch(() => {});
    await tab.waitForTimeout(2000);
    await tab.waitForFunction(() => !document.body.innerText.includes("Loading"), null, { timeout: 20000 });
    await tab.waitForTimeout(500);
    await tab.screenshot({ path: file });
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
