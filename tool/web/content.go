package web

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// The formats of web_fetch. raw is the rest.
const (
	formatMarkdown = "markdown"
	formatText     = "text"
)

// maxContentBytes bounds what the conversion of a page may grow to.
const maxContentBytes = 8 << 20

// content is the body of an answer as a model reads it.
type content struct {
	title     string
	text      string
	truncated bool
}

// contentOf reads the body of an answer. What is no text is described in a sentence, never shown. The error is ctx's cause.
func contentOf(ctx context.Context, resp perdure.WebResponse, at *url.URL, format string) (content, error) {
	out := content{truncated: resp.Truncated}
	header := http.Header(resp.Header)
	if packed := header.Get("Content-Encoding"); packed != "" && !strings.EqualFold(packed, "identity") {
		out.text = fmt.Sprintf("[The body is compressed (%s), which was not asked for and is not read.]", clean(packed))
		return out, nil
	}
	if len(resp.Body) == 0 {
		return out, nil
	}
	kind, charset := mediaType(header.Get("Content-Type"), resp.Body)
	isPage := kind == "text/html" || kind == "application/xhtml+xml"
	switch {
	case strings.HasPrefix(kind, "image/") && kind != "image/svg+xml":
		out.text = fmt.Sprintf("[An image (%s) of %s. web_fetch does not show images.]", kind, size(resp))
		return out, nil
	case !isPage && !isText(kind):
		out.text = fmt.Sprintf("[Binary content (%s) of %s, which is no text.]", kind, size(resp))
		return out, nil
	}
	text, name, ok := decodeText(resp.Body, charset, isPage, resp.Truncated)
	switch {
	case !ok:
		out.text = fmt.Sprintf("[Text in the character set %s (%s) of %s, which web_fetch cannot decode.]", clean(name), kind, size(resp))
		return out, nil
	case strings.ContainsRune(text, 0) && !isPage:
		out.text = fmt.Sprintf("[Binary content of %s that is said to be %s, but is no text.]", size(resp), kind)
		return out, nil
	}
	text = clean(dropCutRune(text, resp.Truncated))
	if !isPage {
		out.text = text
		return out, nil
	}
	return out.page(ctx, openPage(text, at), format)
}

// page fills in what a web page says.
func (c content) page(ctx context.Context, p page, format string) (content, error) {
	var err error
	c.title = p.title
	switch format {
	case formatMarkdown:
		c.text, err = p.markdown(ctx)
	case formatText:
		c.text = p.plainText()
	default:
		c.text = p.text
	}
	c.text = clean(c.text)
	if len(c.text) > maxContentBytes {
		c.text, c.truncated = dropCutRune(c.text[:maxContentBytes], true), true
	}
	return c, err
}

// dropCutRune drops the beginning of a rune at the end of a text that was cut there.
func dropCutRune(text string, cut bool) string {
	for n := 1; cut && n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRuneInString(end) {
				return text[:len(text)-n]
			}
			return text
		}
	}
	return text
}

// mediaType is what a body is said to be, in small letters; where nothing useful is said, what it looks like.
func mediaType(header string, body []byte) (kind, charset string) {
	kind, parameters, err := mime.ParseMediaType(header)
	if err != nil || kind == "application/octet-stream" || !strings.Contains(kind, "/") {
		kind, parameters, _ = mime.ParseMediaType(http.DetectContentType(body))
		parameters = nil // a guess, which decodeText makes better
	}
	return clean(kind), parameters["charset"]
}

// isText names the media types that are text without saying so.
func isText(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml") {
		return true
	}
	switch strings.TrimPrefix(strings.TrimPrefix(kind, "application/"), "x-") {
	case "json", "ndjson", "json5", "jsonl", "json-lines", "xml", "yaml", "toml", "javascript", "ecmascript", "typescript", "sql", "graphql",
		"sh", "csh", "httpd-php", "tex", "latex", "www-form-urlencoded", "subrip":
		return true
	}
	return false
}

// size says how long a body is, as far as is known.
func size(resp perdure.WebResponse) string {
	if resp.Truncated {
		return fmt.Sprintf("more than %d bytes", len(resp.Body))
	}
	return fmt.Sprintf("%d bytes", len(resp.Body))
}
