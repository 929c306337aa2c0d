// Programs with one known use of locks in each mode. The second argument is how long to run, seconds.
package main

import (
    "net"
    "net/http"
    "os"
    "strconv"
    "sync"
    "time"
)

var end time.Time
var ledger, table sync.Mutex
var routes sync.RWMutex
var total int

func compute(steps int) {
    x := uint64(1)
    for i := 0; i < steps; i++ {
        x = x*6364136223846793005 + 1
    }
    total += int(x & 1)
}

func start(count int, work func()) {
    for i := 0; i < count; i++ {
        go func() {
            for time.Now().Before(end) {
                work()
            }
        }()
    }
}

func post() {
    ledger.Lock()
    time.Sleep(time.Millisecond)
    ledger.Unlock()
}

func add() {
    table.Lock()
    compute(300)
    table.Unlock()
}

func reload() {
    routes.Lock()
    compute(6000000)
    routes.Unlock()
}

func main() {
    seconds, _ := strconv.ParseFloat(os.Args[2], 64)
    end = time.Now().Add(time.Duration(seconds * 1e9))
    switch os.Args[1] {
    case "asleep":
        start(8, post)
    case "short":
        start(8, func() { add(); compute(30) })
    case "channel":
        units := make(chan bool, 2)
        start(8, func() { units <- true; time.Sleep(3 * time.Millisecond); <-units })
    case "idle":
        tasks := make(chan int)
        start(8, func() { <-tasks; compute(1000) })
        start(1, func() { tasks <- 1; time.Sleep(5 * time.Millisecond) })
    case "server":
        listener, _ := net.Listen("tcp", "127.0.0.1:0")
        go http.Serve(listener, http.NotFoundHandler())
    case "reload":
        start(8, func() { routes.RLock(); compute(10); routes.RUnlock(); time.Sleep(100 * time.Microsecond) })
        start(1, func() { reload(); time.Sleep(5 * time.Millisecond) })
    case "readers":
        start(8, func() { routes.RLock(); compute(10); routes.RUnlock() })
    }
    time.Sleep(time.Until(end))
}
