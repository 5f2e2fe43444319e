package tool_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/tool"
)

// TestResolvedImage is an image on its way to a model (IM1).
func TestResolvedImage(t *testing.T) {
	t.Parallel()
	t.Run("new", func(t *testing.T) {
		image := tool.ResolvedImage{Base64: "SGVsbG8=", MediaType: "image/png"}
		if image.Base64 != "SGVsbG8=" || image.MediaType != "image/png" {
			t.Errorf("got %+v", image)
		}
	})
	t.Run("to_data_url", func(t *testing.T) {
		image := tool.ResolvedImage{Base64: "SGVsbG8=", MediaType: "image/png"}
		if got := image.URL(); got != "data:image/png;base64,SGVsbG8=" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("jpeg", func(t *testing.T) {
		image := tool.ResolvedImage{Base64: "base64data", MediaType: "image/jpeg"}
		if got := image.URL(); !strings.HasPrefix(got, "data:image/jpeg;base64,") {
			t.Errorf("got %s", got)
		}
	})
}
