// Looks at a running platform as a person would and keeps what is to be seen. See tests/deploy/test_browser.py.
//
//   node browser.cjs ORIGIN FOLDER CANCELLED_RUN_ID
//
// CHROMIUM names the browser; playwright-core is found through NODE_PATH.

const { chromium } = require("playwright-core");
const path = require("path");

async function main([origin, folder, run]) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--no-proxy-server"],
  });
  try {
    const tab = await browser.newPage({ viewport: { width: 1280, height: 760 } });
    tab.setDefaultTimeout(60000);
    const open = async (page) => {
      await tab.goto(origin + page, { waitUntil: "domcontentloaded" });
      await tab.waitForLoadState("networkidle", { timeout: 5000 }).catch(() => {});
      await tab.waitForTimeout(1500);
    };
    const keep = async (name) => {
      await tab.waitForFunction(() => !document.body.innerText.includes("Loading"), null, { timeout: 20000 }).catch(() => {});
      await tab.waitForTimeout(800);
      await tab.screenshot({ path: path.join(folder, name) });
    };
    const expect = async (text) => {
      await tab.getByText(text).first().waitFor({ state: "visible" });
      console.log("seen:", text);
    };

    // The graph with its groups open.
    const groups = ["platform", "results", "samples", "streams", "tables", "views"].map((name) => `global@global:${name}`).join(",");
    await open(`/asset-groups/?expanded=${encodeURIComponent(groups)}`);
    await expect("sales_by_product");
    await tab.mouse.move(900, 420);
    await keep("asset-graph.png");

    // What a view is, and its columns.
    await open("/assets/sales_by_product?view=overview");
    await expect("reconciles").catch(() => {});
    await keep("asset-page.png");

    // How its base has been doing, drawn.
    await open("/assets/sales_by_product/sales_by_product_base?view=overview");
    await tab.getByText("Plots", { exact: true }).first().click();
    await expect("lag_seconds_before");
    await tab.getByText("lag_seconds_before").first().scrollIntoViewIfNeeded();
    await keep("view-plots.png");

    // Its checks.
    await open("/assets/sales_by_product?view=checks");
    await expect("reconciles");
    await tab.getByText("reconciles").first().click();
    await keep("view-checks.png");

    // The overview's picture.
    await open("/assets/platform/overview?view=overview");
    await tab.getByText("[Show Markdown]").first().click();
    await tab.locator("img[alt*='arrivals']").first().waitFor({ state: "visible" });
    await keep("platform-overview.png");


    if (run) {
      await open(`/runs/${run}`);
      await expect("Canceled");
      await keep("cancelled-run.png");
    }
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
