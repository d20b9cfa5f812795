internal import FerryCore
internal import OpenSSL

/// The document as an HTML page. It loads no script, font or style.
let docsPage: [UInt8] = Array(
    """
    <!doctype html>
    <html lang="en"><head><meta charset="utf-8"><title>Ferry API</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <style>\(style)</style></head>
    <body><main><h1>Ferry API</h1><p>Made from <a href="/openapi.json">/openapi.json</a>.</p>
    <div id="operations"></div><h2>Error codes</h2><dl>\(codes)</dl>
    <h2>Schemas</h2><div id="schemas"></div></main>
    <script>\(script)</script></body></html>
    """.utf8)

/// Digest of the page's script, for its Content-Security-Policy.
let docsScriptDigest = Base64.encode(Digest.of(Array(script.utf8)))

private let codes = allProblems.map {
    "<dt id=\"\($0.code)\"><code>\($0.code)</code> \($0.status)</dt><dd>\($0.title).</dd>"
}.joined()

private let style = """
    body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1b1f24;background:#fff}
    main{max-width:56rem;margin:auto;padding:2rem 1rem}
    details{border:1px solid #d0d7de;border-radius:6px;margin:.5rem 0;padding:.5rem .8rem}
    summary{cursor:pointer}code,pre{font:14px/1.4 ui-monospace,monospace}
    pre{overflow:auto;background:#f6f8fa;padding:.8rem;border-radius:6px}
    .method{display:inline-block;min-width:4.5rem;font-weight:600}dt{margin-top:.6rem}
    @media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}pre{background:#161b22}
    details{border-color:#30363d}a{color:#58a6ff}}
    """

private let script = """
    (async () => {
      const answer = await fetch('/openapi.json');
      const doc = await answer.json();
      const add = (parent, name, text, cls) => {
        const element = document.createElement(name);
        if (text !== undefined) element.textContent = text;
        if (cls) element.className = cls;
        parent.append(element);
        return element;
      };
      const operations = document.getElementById('operations');
      for (const [path, methods] of Object.entries(doc.paths)) {
        for (const [method, operation] of Object.entries(methods)) {
          if (method === 'parameters' || method === 'head') continue;
          const box = add(operations, 'details');
          const head = add(box, 'summary');
          add(head, 'span', method.toUpperCase(), 'method');
          add(head, 'code', path);
          head.append(' — ' + operation.summary);
          if (operation.description) add(box, 'p', operation.description);
          for (const reference of operation.parameters || []) {
            const parameter = doc.components.parameters[reference.$ref.split('/').pop()];
            const line = add(box, 'p');
            add(line, 'code', parameter.name);
            line.append(' in ' + parameter.in + (parameter.description ? ': ' + parameter.description : ''));
          }
          if (operation.requestBody) {
            add(box, 'p', 'Body:');
            add(box, 'pre', JSON.stringify(operation.requestBody.content, null, 2));
          }
          for (const [status, response] of Object.entries(operation.responses)) {
            const line = add(box, 'p');
            add(line, 'code', status);
            line.append(' ' + response.description);
          }
        }
      }
      const schemas = document.getElementById('schemas');
      for (const [name, schema] of Object.entries(doc.components.schemas)) {
        const box = add(schemas, 'details');
        add(add(box, 'summary'), 'code', name);
        add(box, 'pre', JSON.stringify(schema, null, 2));
      }
    })();
    """
