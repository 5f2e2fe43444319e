package tool_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

func TestCut(t *testing.T) {
	t.Parallel()
	const limit = 1000
	for name, value := range map[string]any{
		"text":         strings.Repeat("a", 5000),
		"wide runes":   strings.Repeat("世界", 2000),
		"escapes":      strings.Repeat("\x01\"\n", 2000),
		"an object":    map[string]string{"out": strings.Repeat("ü", 3000)},
		"just over it": strings.Repeat("b", limit-1),
	} {
		t.Run(name, func(t *testing.T) {
			whole := record(t, tool.Success(value))

			cut := tool.Cut(whole, limit, "/.outputs/call_1.txt")

			var got struct {
				Truncated bool
				Bytes     int
				Head      string
				Path      string
			}
			if err := json.Unmarshal(cut.Result, &got); err != nil || len(cut.Result) > limit || len(cut.Result) < limit-12 {
				t.Fatalf("%d bytes, %v: %s", len(cut.Result), err, cut.Result)
			}
			if !got.Truncated || got.Bytes != len(whole.Result) || got.Path != "/.outputs/call_1.txt" || !utf8.ValidString(got.Head) {
				t.Errorf("got %+v", got)
			}
			text, isText := value.(string)
			if isText && !strings.HasPrefix(text, got.Head) || !isText && !strings.HasPrefix(string(whole.Result), got.Head) {
				t.Errorf("the head is not the beginning: %q", got.Head)
			}
		})
	}
	t.Run("within the limit", func(t *testing.T) {
		whole := record(t, tool.Success(strings.Repeat("a", limit-2)))

		if diff := cmp.Diff(whole, tool.Cut(whole, limit, "")); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("not stored", func(t *testing.T) {
		got := tool.Cut(record(t, tool.Success(strings.Repeat("a", 5000))), limit, "")

		if !strings.Contains(string(got.Result), `"path":null,"note":"full output not stored"`) {
			t.Errorf("got %s", got.Result)
		}
	})
	t.Run("an error stays an error", func(t *testing.T) {
		got := tool.Cut(record(t, tool.Error(strings.Repeat("世", 5000))), limit, "")

		if len(got.Result) > limit || !strings.HasSuffix(got.Error, "… (15000 bytes in all)") || !utf8.ValidString(got.Error) || got.ErrorKind != perdure.ErrorTool {
			t.Errorf("%d bytes: %s", len(got.Result), got.Error)
		}
	})
	t.Run("a limit below everything", func(t *testing.T) {
		if got := tool.Cut(record(t, tool.Success(strings.Repeat("a", 5000))), 1, "/a"); !json.Valid(got.Result) {
			t.Errorf("got %s", got.Result)
		}
	})
}

func TestOutputPath(t *testing.T) {
	t.Parallel()
	for _, id := range []perdure.CallID{"call_1", "../../etc/passwd", "a/b", "", "x\x00", perdure.CallID(strings.Repeat("a", 5000))} {
		path := tool.OutputPath(id)

		if clean, err := tool.CleanPath(path); err != nil || clean != path || !strings.HasPrefix(path, "/.outputs/") || strings.Count(path, "/") != 2 {
			t.Errorf("%q: %q, %v", id, path, err)
		}
	}
}

func TestCheckImages(t *testing.T) {
	t.Parallel()
	good := perdure.Image{Base64: "SGVsbG8=", MediaType: "image/png"}
	large := perdure.Image{Base64: base64.StdEncoding.EncodeToString(make([]byte, tool.MaxImageBytes+1)), MediaType: "image/jpeg"}
	full := perdure.Image{Base64: base64.StdEncoding.EncodeToString(make([]byte, tool.MaxImageBytes)), MediaType: "image/webp"}
	var many []perdure.Image
	for range 12 {
		many = append(many, good)
	}
	for _, test := range []struct {
		name   string
		value  any
		images []perdure.Image
		kept   int
		result string
	}{
		{"good", "a", []perdure.Image{good, full}, 2, `"a"`},
		{"none", "a", nil, 0, `"a"`},
		{"media type", "a", []perdure.Image{{Base64: "SGVsbG8=", MediaType: "image/tiff"}, good}, 1, `"a\n[image 1 left out: the media type \"image/tiff\" is not accepted]"`},
		{"not base64", map[string]int{"n": 1}, []perdure.Image{{Base64: "###", MediaType: "image/gif"}}, 0, `{"image_notes":["[image 1 left out: it is not base64]"],"n":1}`},
		{"too large", nil, []perdure.Image{large}, 0, `{"image_notes":["[image 1 left out: it is larger than 5 MiB]"],"result":null}`},
		{"too many", "a", many, 10, `"a\n[image 11 left out: a result has at most 10 images]\n[image 12 left out: a result has at most 10 images]"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := tool.CheckImages(record(t, tool.Success(test.value).WithImages(test.images...)))

			if len(got.Images) != test.kept || string(got.Result) != test.result {
				t.Errorf("%d images, %s", len(got.Images), got.Result)
			}
			if test.kept == 0 && got.Images != nil {
				t.Error("an empty list is not absent")
			}
		})
	}
}
