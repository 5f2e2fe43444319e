package mcptool

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Beginnings of pictures, which are enough to recognise them.
var (
	png  = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 40)))
	jpeg = base64.StdEncoding.EncodeToString([]byte("\xff\xd8\xff\xe0" + strings.Repeat("\x00", 40)))
	gif  = base64.StdEncoding.EncodeToString([]byte("GIF89a" + strings.Repeat("\x00", 40)))
	webp = base64.StdEncoding.EncodeToString([]byte("RIFF\x24\x00\x00\x00WEBPVP8 " + strings.Repeat("\x00", 40)))
	pdf  = base64.StdEncoding.EncodeToString([]byte("%PDF-1.7 " + strings.Repeat("\x01", 40)))
)

// TestResultForModel: pictures are images of the result, other bytes are named, and no base64 is
// part of what the model reads.
func TestResultForModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result string
		images []string // their media types
		shown  string   // a part of what the model reads
		raw    bool     // the whole result is the raw output
	}{
		"text only":                        {`{"content":[{"type":"text","text":"fine <b>"}]}`, nil, `fine <b>`, false},
		"a PNG (LostRuins/koboldcpp#2374)": {`{"content":[{"type":"text","text":"made"},{"type":"image","mimeType":"image/png","data":"` + png + `"}]}`, []string{"image/png"}, `this is image 1`, false},
		"JPEG, GIF and WebP": {
			`{"content":[{"type":"image","mimeType":"image/jpeg","data":"` + jpeg + `"},{"type":"image","mimeType":"image/gif","data":"` + gif + `"},{"type":"image","mimeType":"image/webp","data":"` + webp + `"}]}`,
			[]string{"image/jpeg", "image/gif", "image/webp"}, `this is image 3`, false},
		"a JPEG with another name (b1ff/atlassian-dc-mcp#83)": {`{"content":[{"type":"image","mimeType":"image/jpg","data":"` + jpeg + `"}]}`, []string{"image/jpeg"}, `"image/jpeg"`, false},
		"the picture again in structured content (anthropics/claude-code#70280)": {
			`{"content":[{"type":"image","mimeType":"image/png","data":"` + png + `"}],"structuredContent":{"result":[{"type":"image","mimeType":"image/png","data":"` + png + `"}]}}`,
			[]string{"image/png"}, `"structuredContent":{"result":[{"mimeType":"image/png","note":"this is image 1 of the result"`, false},
		"a data URI in an object (open-webui/open-webui#29665)": {
			`{"content":[],"structuredContent":{"screenshot":"data:image/png;base64,` + png + `"}}`, []string{"image/png"}, `this is image 1`, false},
		"a picture as a resource (anthropics/claude-code#72271)": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a.png","mimeType":"image/png","blob":"` + png + `"}}]}`, []string{"image/png"}, `file:///a.png`, false},
		"a picture without a type (anthropics/anthropic-sdk-python#1836)": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"` + png + `"}}]}`, []string{"image/png"}, `this is image 1`, false},
		"another resource (NousResearch/hermes-agent#64556)": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a.pdf","mimeType":"application/pdf","blob":"` + pdf + `"}}]}`, nil, `49 bytes of application/pdf; the whole result is stored in /.outputs/call_1.txt`, true},
		"a text as bytes": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a.md","mimeType":"text/markdown","blob":"` + base64.StdEncoding.EncodeToString([]byte("# Title")) + `"}}]}`, nil, `# Title`, false},
		"a text as a resource": {`{"content":[{"type":"resource","resource":{"uri":"file:///a.md","text":"# Title"}}]}`, nil, `# Title`, false},
		"a link":               {`{"content":[{"type":"resource_link","uri":"file:///a.md","name":"a"}]}`, nil, `file:///a.md`, false},
		"a sound (vercel/ai#15285)": {
			`{"content":[{"type":"audio","mimeType":"audio/wav","data":"` + pdf + `"},{"type":"text","text":"spoken"}]}`, nil, `not shown: 49 bytes of audio/wav`, true},
		"a picture that no model accepts": {
			`{"content":[{"type":"image","mimeType":"image/svg+xml","data":"` + base64.StdEncoding.EncodeToString([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)) + `"}]}`, nil, `image/svg+xml`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r mcp.CallToolResult
			if err := json.Unmarshal([]byte(c.result), &r); err != nil {
				t.Fatal(err)
			}
			exact(&r, json.RawMessage(c.result))
			got := resultForModel(tool.Call{ID: "call_1"}, &r)
			record, err := got.Record("call_1")
			if err != nil || got.IsError() {
				t.Fatal(got, err)
			}
			checkImages(t, tool.CheckImages(record), c.images)
			shown := string(record.Result)
			for _, bytes := range []string{png, jpeg, gif, webp, pdf} {
				if strings.Contains(shown, bytes[:20]) {
					t.Errorf("the model reads base64: %s", shown)
				}
			}
			if !strings.Contains(shown, c.shown) {
				t.Errorf("the model reads %s, want %s", shown, c.shown)
			}
			if (got.Raw != nil) != c.raw {
				t.Errorf("raw output: %v, want %v", got.Raw != nil, c.raw)
			}
		})
	}
}

func checkImages(t *testing.T, record perdure.ToolResult, want []string) {
	t.Helper()
	var types []string
	for _, image := range record.Images {
		types = append(types, image.MediaType)
		if _, err := base64.StdEncoding.DecodeString(image.Base64); err != nil {
			t.Error(err)
		}
	}
	if strings.Join(types, " ") != strings.Join(want, " ") {
		t.Errorf("images %v, want %v", types, want)
	}
}

// TestErrorForModel: an error is a tool error with its texts and pictures.
func TestErrorForModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result, text string
		images       []string
		kind         perdure.ErrorKind
	}{
		"text":              {`{"isError":true,"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}]}`, "no\nway", nil, ""},
		"with a picture":    {`{"isError":true,"content":[{"type":"text","text":"no"},{"type":"image","mimeType":"image/png","data":"` + png + `"}]}`, "no\n{", []string{"image/png"}, ""},
		"structured only":   {`{"isError":true,"content":[],"structuredContent":{"why":"no"}}`, `{"why":"no"}`, nil, ""},
		"unknown outcome":   {`{"isError":true,"content":[{"type":"text","text":"no"}],"structuredContent":{"outcome":"unknown"}}`, "no", nil, perdure.ErrorUnknown},
		"nothing at all":    {`{"isError":true,"content":[]}`, "gives no reason", nil, ""},
		"a blank text only": {`{"isError":true,"content":[{"type":"text","text":" "}]}`, "gives no reason", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r mcp.CallToolResult
			if err := json.Unmarshal([]byte(c.result), &r); err != nil {
				t.Fatal(err)
			}
			got := resultForModel(tool.Call{ID: "call_1"}, &r)
			if got.Kind != tool.KindToolError || !strings.Contains(got.Text, c.text) || got.ErrorKind != c.kind || strings.Contains(got.Text, png[:20]) {
				t.Errorf("got %+v", got)
			}
			record, err := got.Record("call_1")
			if err != nil {
				t.Fatal(err)
			}
			checkImages(t, record, c.images)
		})
	}
}

// TestBytesOf reads base64 in every form that servers write.
func TestBytesOf(t *testing.T) {
	t.Parallel()
	want := "\xfb\xff\xfe?>a"
	for _, text := range []string{
		base64.StdEncoding.EncodeToString([]byte(want)), base64.RawStdEncoding.EncodeToString([]byte(want)),
		base64.URLEncoding.EncodeToString([]byte(want)), base64.StdEncoding.EncodeToString([]byte(want))[:4] + "\r\n" + base64.StdEncoding.EncodeToString([]byte(want))[4:],
		"data:image/png;charset=x;base64," + base64.StdEncoding.EncodeToString([]byte(want)),
	} {
		if got, err := bytesOf(text); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "not base64!", "====", "a"} {
		if got, err := bytesOf(text); err == nil {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

// FuzzResultForModel: no result breaks the conversion.
func FuzzResultForModel(f *testing.F) {
	f.Add(`{"content":[{"type":"image","data":"x","mimeType":"image/png"}],"structuredContent":{"a":[{"blob":"x","uri":1}]}}`)
	f.Add(`{"isError":true,"content":[{"type":"resource","resource":{"uri":"a","blob":"eA=="}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var r mcp.CallToolResult
		if json.Unmarshal([]byte(text), &r) != nil {
			return
		}
		if record, err := resultForModel(tool.Call{ID: "call_1"}, &r).Record("call_1"); err != nil || !json.Valid(record.Result) {
			t.Errorf("%s: %v, %s", text, err, record.Result)
		}
	})
}
