"""The logit lens as one HTML file."""

from importlib import resources

from keras_bert_rebuild.files.printable import Verbatim, html_page
from keras_bert_rebuild.interpret.lens_record import LogitLens

BODY = Verbatim("""<header class="top">
  <div>
    <h1>What would it say here</h1>
    <p class="subtitle" id="text"></p>
  </div>
  <button id="theme" type="button" class="quiet"></button>
</header>
<main>
<fieldset class="choice" id="colours"><legend>Colour</legend></fieldset>
<div class="split">
  <div>
    <div class="table" tabindex="0" role="region" aria-label="Likeliest token of every depth">
      <table class="lens" id="lens"></table>
    </div>
    <p class="note">The likeliest token after every block, read by the model's own MLM head; bold where it is the model's answer.
    Arrow keys go from cell to cell.</p>
  </div>
  <section class="side" id="side" aria-live="polite" aria-label="The chosen cell"></section>
</div>
</main>""")


def lens_page(lens: LogitLens, *, name: str = "") -> str:
    """A page with the predictions of all depths, and the details of a selected one.

    A single file that needs no network; texts are escaped.

    Args:
        lens: the lens to show.
        name: name of the model.

    Returns:
        The text of an HTML file.
    """
    style = "\n" + _part("base.css", "explain") + _part("page.css") + _part("lens.css")
    script = "\n(() => {\n'use strict';\n" + _part("page.js") + _part("lens.js") + "})();\n"
    text = " ".join(word for word in lens.words if word)
    return html_page("What would it say here", style, BODY, script=script, data={"name": name, "text": text, **lens.to_json()})


def _part(name, package="interpret"):
    return (resources.files(f"keras_bert_rebuild.{package}") / "page" / name).read_text(encoding="utf-8")
