package docs_test

import (
	"encoding/json"
	"go/format"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/perdure/perdure/model/scripted"
)

// TestBlocks reads every block of JSON, YAML and Go: a script as the scripted model reads it, the
// rest as its language. The pieces of Go that stand in a package are compared with it elsewhere
// (TestHowTos, TestReadme).
func TestBlocks(t *testing.T) {
	t.Parallel()
	read := map[string]int{}
	for name, text := range pages(t) {
		for _, language := range []string{"json", "yaml", "go"} {
			for _, block := range blocks(text, language) {
				read[language]++
				if err := readBlock(language, block); err != nil {
					t.Errorf("%s: %v:\n%s", name, err, block)
				}
			}
		}
	}
	if read["json"] == 0 || read["yaml"] == 0 || read["go"] == 0 {
		t.Errorf("blocks that were read: %v", read)
	}
}

func readBlock(language, block string) error {
	switch {
	case language == "json":
		var value any
		return json.Unmarshal([]byte(block), &value)
	case language == "go":
		// A field and its value, or a literal, is a piece as well.
		var err error
		for _, form := range []string{block, "var _ = T{\n" + block + "\n}", "var _ = \n" + block} {
			if _, err = format.Source([]byte(form)); err == nil {
				return nil
			}
		}
		_, err = format.Source([]byte(block))
		return err
	case regexp.MustCompile(`(?m)^steps:`).MatchString(block):
		_, err := scripted.Parse("page", []byte(block))
		return err
	}
	var value any
	return yaml.Unmarshal([]byte(block), &value)
}

// TestBlocksAreRead: what is broken is seen.
func TestBlocksAreRead(t *testing.T) {
	t.Parallel()
	for language, broken := range map[string]string{"json": `{"a": }`, "go": "if {", "yaml": "steps: [{txt: a}]"} {
		if readBlock(language, broken) == nil {
			t.Errorf("a broken block of %s is taken: %s", language, broken)
		}
	}
}
