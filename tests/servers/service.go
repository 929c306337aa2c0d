// A service whose handlers share one mutex, with Go's mutex profile: PORT.
package main

import (
    "fmt"
    "net/http"
    _ "net/http/pprof"
    "os"
    "runtime"
    "sync"
)

var mu sync.Mutex
var counts = map[string]int{}

func work(n int) int {
    sum := 0
    for i := 0; i < n; i++ {
        sum += i * i
    }
    return sum
}

func handler(w http.ResponseWriter, r *http.Request) {
    mu.Lock()
    counts[r.URL.Path] += work(200000) & 1
    mu.Unlock()
    fmt.Fprintln(w, "ok")
}

func main() {
    runtime.SetMutexProfileFraction(1)
    http.HandleFunc("/hit", handler)
    http.HandleFunc("/quit", func(http.ResponseWriter, *http.Request) { os.Exit(0) })
    fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
