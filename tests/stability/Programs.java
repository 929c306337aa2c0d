import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.*;
import java.util.concurrent.locks.*;

/** Programs with one known use of locks in each mode. The second argument is how long to run, seconds. */
public class Programs {
    interface Work { void run() throws Exception; }

    static long end;
    static final Object ledger = new Object();
    static final ReentrantLock book = new ReentrantLock();
    static final Semaphore units = new Semaphore(2);
    static final LinkedBlockingQueue<Integer> tasks = new LinkedBlockingQueue<>();
    static volatile long sink;

    static void compute(int steps) {
        long x = 1;
        for (int i = 0; i < steps; i++) x = x * 6364136223846793005L + 1;
        sink = x;
    }

    static void post() throws Exception {
        synchronized (ledger) { Thread.sleep(1); }
    }

    static void add() {
        synchronized (ledger) { compute(3000); }
    }

    static void write() throws Exception {
        book.lock();
        try { Thread.sleep(1); } finally { book.unlock(); }
    }

    static void query() throws Exception {
        units.acquire();
        try { Thread.sleep(3); } finally { units.release(); }
    }

    static int free = 2;

    static void take() throws Exception {
        synchronized (ledger) {
            while (free == 0) ledger.wait();
            free--;
        }
    }

    static void giveBack() {
        synchronized (ledger) {
            free++;
            ledger.notify();
        }
    }

    static void start(int count, Work work) {
        for (int i = 0; i < count; i++) {
            new Thread(() -> {
                try { while (System.nanoTime() < end) work.run(); } catch (Exception e) { }
            }).start();
        }
    }

    public static void main(String[] words) throws Exception {
        double seconds = Double.parseDouble(words[1]);
        end = System.nanoTime() + (long) (seconds * 1e9);
        switch (words[0]) {
            case "asleep" -> start(6, Programs::post);
            case "computes" -> start(6, Programs::add);
            case "lock" -> start(6, Programs::write);
            case "semaphore" -> start(8, Programs::query);
            case "notify" -> start(8, () -> { take(); Thread.sleep(3); giveBack(); });
            case "results", "completes" -> {
                ExecutorService pool = Executors.newFixedThreadPool(2, task -> {
                    Thread thread = new Thread(task);
                    thread.setDaemon(true);
                    return thread;
                });
                Runnable task = () -> {
                    try { Thread.sleep(3); } catch (InterruptedException end) { }
                };
                if (words[0].equals("results")) start(8, () -> pool.submit(task).get());
                else start(8, () -> CompletableFuture.runAsync(task, pool).join());
            }
            case "idle" -> {
                for (int i = 0; i < 4; i++) {
                    Thread worker = new Thread(() -> {
                        try { while (true) { tasks.take(); compute(1000); } } catch (Exception e) { }
                    });
                    worker.setDaemon(true);
                    worker.start();
                }
                start(1, () -> { tasks.add(1); Thread.sleep(5); });
            }
            case "server" -> {
                HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
                server.createContext("/", exchange -> {
                    exchange.sendResponseHeaders(204, -1);
                    exchange.close();
                });
                server.setExecutor(Executors.newFixedThreadPool(8));
                server.start();
                Thread.sleep((long) (seconds * 1000));
                System.exit(0);
            }
            case "executors" -> {
                ScheduledExecutorService timer = Executors.newScheduledThreadPool(4);
                ExecutorService pool = Executors.newFixedThreadPool(8);
                Runnable tick = () -> pool.execute(() -> compute(1000));
                timer.scheduleAtFixedRate(tick, 0, 10, TimeUnit.MILLISECONDS);
                Thread.sleep((long) (seconds * 1000));
                System.exit(0);
            }
            default -> System.exit(2);
        }
    }
}
