#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='the HTML report: well formed, self-contained, clean in a browser'

. /usr/share/sharness/sharness.sh

show=$ARGUS_BUILDDIR/report_show
python=${ARGUS_PYTHON:-python3}

for browser in "$ARGUS_BROWSER" chromium chromium-browser google-chrome; do
    test -n "$browser" && command -v "$browser" >/dev/null 2>&1 && test_set_prereq BROWSER && break
done
"$python" -c 'import html.parser' 2>/dev/null && test_set_prereq PYTHON

# browse FILE WHAT...: headless, its own profile, no sandbox (tests may run as root).
browse() {
    file=$1
    shift
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$PWD/profile" --hide-scrollbars --enable-logging=stderr --v=0 "$@" \
        "file://$PWD/$file" 2>browser.err
}

cat >check.py <<'PY'
# Well formed; nothing from elsewhere; every picture has words and a table; sections asked for are there.
import html.parser, re, sys

void = {"meta", "link", "img", "br", "hr"}
allowed_src = re.compile(r"data:image/(png|svg\+xml);base64,[A-Za-z0-9+/=]+$")


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.images, self.tables, self.problems = [], set(), 0, 0, []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in void:
            self.open.append(tag)
        if tag in ("script", "iframe", "object", "embed", "form"):
            self.problems.append(f"<{tag}>")
        if "id" in attrs:
            if attrs["id"] in self.ids:
                self.problems.append(f"id {attrs['id']} twice")
            self.ids.add(attrs["id"])
        if tag == "img":
            self.images += 1
            if not allowed_src.match(attrs.get("src", "")):
                self.problems.append("picture from elsewhere: " + attrs.get("src", "")[:60])
            if not attrs.get("alt"):
                self.problems.append("picture without words")
        elif "src" in attrs or attrs.get("href", "data:,") != "data:,":
            self.problems.append(f"<{tag}> leads elsewhere: {attrs}")
        if tag == "table":
            self.tables += 1

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")


page = Page()
text = open(sys.argv[1], encoding="utf-8").read()
page.feed(text)
page.close()
page.problems += [f"<{tag}> left open" for tag in page.open]
page.problems += [f"no section {want}" for want in sys.argv[2:] if want not in page.ids]
if "url(" in text or "@import" in text:
    page.problems.append("style from elsewhere")
if page.images == 0 or page.tables < page.images / 4:
    page.problems.append(f"{page.images} pictures, {page.tables} tables")
print(page.images, "pictures,", page.tables, "tables")
print("\n".join(page.problems))
sys.exit(1 if page.problems else 0)
PY

while read -r name kind ranks steps stages sections; do
    test_expect_success "$name: the page is made" "
        '$show' $kind $ranks $steps $stages --html $name.html &&
        test \$(wc -c <$name.html) -lt 4000000
    "
    test_expect_success PYTHON "$name: well formed, self-contained, complete" "
        '$python' check.py $name.html verdict quality $sections
    "
    test_expect_success BROWSER "$name: a browser shows it without a complaint" "
        browse $name.html --dump-dom >dom.html &&
        grep -q 'id=\"verdict\"' dom.html &&
        ! grep -E 'CONSOLE|Refused to' browser.err &&
        browse $name.html --window-size=1050,2400 --screenshot=$name.png &&
        test \$(wc -c <$name.png) -gt 20000
    "
done <<EOF2
healthy healthy 8 120 1 steps compute wait idle collectives
straggler straggler 32 300 4 steps stages compute wait idle kernels evidence next explained
link link 64 200 4 steps compute wait collectives pairs
pipeline pipeline 32 200 4 stages compute
stall stall 16 200 1 steps compute idle kernels
large straggler 1024 400 4 steps stages compute wait idle kernels
huge pipeline 10240 60 8 steps stages compute wait idle
EOF2

test_done
