// Renders the chart with the template engine and the functions that Helm itself uses (text/template and sprig, both of Debian), and those few of
// Helm's own that the chart calls. Prints the objects as JSON, one a line, or ends with 1 and the reason.
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go run render.go CHART NAMESPACE [OVERRIDES.yaml]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// merged lays the second map over the first, as Helm does: maps are merged, all else is replaced.
func merged(base, over map[string]interface{}) map[string]interface{} {
	for key, value := range over {
		if inner, ok := value.(map[string]interface{}); ok {
			if own, ok := base[key].(map[string]interface{}); ok {
				base[key] = merged(own, inner)
				continue
			}
		}
		base[key] = value
	}
	return base
}

func read(path string) map[string]interface{} {
	text, err := os.ReadFile(path)
	fatal(err)
	values := map[string]interface{}{}
	fatal(yaml.Unmarshal(text, &values))
	return values
}

func main() {
	chart, namespace := os.Args[1], os.Args[2]
	values := read(filepath.Join(chart, "values.yaml"))
	if len(os.Args) > 3 {
		values = merged(values, read(os.Args[3]))
	}
	about := read(filepath.Join(chart, "Chart.yaml"))
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["fail"] = func(why string) (string, error) { return "", errors.New(why) }
	all.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	fatal(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		fatal(err)
		_, err = all.New(filepath.Base(path)).Parse(string(text))
		fatal(err)
	}
	data := map[string]interface{}{
		"Values":  values,
		"Release": map[string]interface{}{"Namespace": namespace, "Name": "plimsoll"},
		"Chart":   map[string]interface{}{"AppVersion": about["appVersion"], "Name": about["name"], "Version": about["version"]},
	}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "_") {
			continue
		}
		var text bytes.Buffer
		fatal(all.ExecuteTemplate(&text, filepath.Base(path), data))
		if filepath.Ext(path) == ".txt" {
			fmt.Fprint(os.Stderr, text.String())
			continue
		}
		documents := yaml.NewDecoder(&text)
		for {
			var object map[string]interface{}
			err := documents.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				fatal(fmt.Errorf("%s: %w", path, err))
			}
			if object != nil {
				line, err := json.Marshal(object)
				fatal(err)
				fmt.Println(string(line))
			}
		}
	}
}
