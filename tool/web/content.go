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

// The formats of web_fetch. Any other value means raw.
const (
	formatMarkdown = "markdown"
	formatText     = "text"
)

// maxContentBytes limits the size of a converted page.
const maxContentBytes = 8 << 20

// content is the body of a response in the form for a model.
type content struct {
	title     string
	text      string
	truncated bool
}

// contentOf converts the body of a response. Anything but text is described in a sentence. The
// error is ctx's cause.
func contentOf(ctx context.Context, resp perdure.WebResponse, at *url.URL, format string) (content, error) {
	out := content{truncated: resp.Truncated}
	header := http.Header(resp.Header)
	if packed := header.Get("Content-Encoding"); packed != "" && !strings.EqualFold(packed, "identity") {
		out.text = fmt.Sprintf("[The body is compressed (%s), although compression was not requested. It was not decoded.]", clean(packed))
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
		out.text = fmt.Sprintf("[Binary content (%s) of %s. web_fetch shows only text.]", kind, size(resp))
		return out, nil
	}
	text, name, ok := decodeText(resp.Body, charset, isPage, resp.Truncated)
	switch {
	case !ok:
		out.text = fmt.Sprintf("[Text in the character set %s (%s) of %s, which web_fetch cannot decode.]", clean(name), kind, size(resp))
		return out, nil
	case strings.ContainsRune(text, 0) && !isPage:
		out.text = fmt.Sprintf("[Binary content of %s, although the server says that it is %s.]", size(resp), kind)
		return out, nil
	}
	text = clean(dropCutRune(text, resp.Truncated))
	if !isPage {
		out.text = text
		return out, nil
	}
	return out.page(ctx, openPage(text, at), format)
}

// page fills in the title and text of a web page.
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

// dropCutRune removes an incomplete rune at the end of a text that was cut.
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

// mediaType returns the media type of a body in lower case: the declared one or, if that is missing
// or too general, the detected one.
func mediaType(header string, body []byte) (kind, charset string) {
	kind, parameters, err := mime.ParseMediaType(header)
	if err != nil || kind == "application/octet-stream" || !strings.Contains(kind, "/") {
		kind, parameters, _ = mime.ParseMediaType(http.DetectContentType(body))
		parameters = nil // only a guess; decodeText does better
	}
	return clean(kind), parameters["charset"]
}

// isText reports whether a media type is text.
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

// size describes the length of a body.
func size(resp perdure.WebResponse) string {
	if resp.Truncated {
		return fmt.Sprintf("more than %d bytes", len(resp.Body))
	}
	return fmt.Sprintf("%d bytes", len(resp.Body))
}
