// Command supervisor is a supervisor and nothing else: what Config.Supervisor can name.
package main

import (
	"os"

	"github.com/perdure/perdure/internal/supervise"
)

func main() {
	supervise.Entry()
	os.Exit(2) // it was started by hand
}
