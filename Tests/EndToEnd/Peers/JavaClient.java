import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.TreeMap;

/** JavaClient PROXY TARGET GATEWAY SECONDS: asks through the proxy and the gateway; prints the statuses as JSON. */
public class JavaClient {
  public static void main(String[] arguments) throws Exception {
    URI proxy = URI.create(arguments[0]);
    HttpClient throughProxy = HttpClient.newBuilder()
        .proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort())))
        .version(HttpClient.Version.HTTP_1_1).build();
    // By default it offers an upgrade to h2c, which a proxy has to decline in silence.
    HttpClient direct = HttpClient.newHttpClient();
    long until = System.nanoTime() + (long) (Double.parseDouble(arguments[3]) * 1e9);
    TreeMap<Integer, Integer> statuses = new TreeMap<>();
    while (System.nanoTime() < until) {
      statuses.merge(get(throughProxy, arguments[1]), 1, Integer::sum);
      statuses.merge(get(direct, arguments[2]), 1, Integer::sum);
    }
    StringBuilder text = new StringBuilder();
    statuses.forEach((status, count) -> text.append(text.length() == 0 ? "" : ",")
        .append('"').append(status).append("\":").append(count));
    System.out.println("{" + text + "}");
    System.exit(0);
  }

  private static int get(HttpClient client, String target) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(target)).timeout(Duration.ofSeconds(30)).build();
    return client.send(request, HttpResponse.BodyHandlers.ofString()).statusCode();
  }
}
